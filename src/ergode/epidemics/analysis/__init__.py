"""Analysis of simulated epidemics: line lists, summaries, final sizes."""
