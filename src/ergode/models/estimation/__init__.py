"""What is known of a state: priors, measurements, likelihoods."""
