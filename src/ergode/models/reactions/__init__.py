"""Networks of reactions: species, reactions, rates, and derived quantities."""
