"""What several methods use: stages of an infection, transmission, counts on a grid."""
