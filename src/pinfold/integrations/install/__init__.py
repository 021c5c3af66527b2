"""`pinfold install AGENT`: an agent's configuration gains our hooks, and loses them again."""
