"""State estimation: priors, measurements, likelihoods."""
