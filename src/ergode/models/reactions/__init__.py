"""Networks of reactions: species, reactions, rates, and what follows from them."""
