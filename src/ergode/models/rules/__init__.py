"""Rules of reactions between molecules with sites, and the networks that they generate."""
