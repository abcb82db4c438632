"""Shared by the methods: stages of an infection, transmission, counts on a grid."""
