"""Who can infect whom: contact networks, how they are drawn, and where they come from."""
