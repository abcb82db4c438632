"""Models of epidemics: compartments, seeds and interventions."""
