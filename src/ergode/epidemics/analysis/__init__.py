"""What is read off an epidemic: line lists, summaries, final sizes."""
