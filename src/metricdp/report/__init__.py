"""Output for people: tables, plots and the explorer page."""
