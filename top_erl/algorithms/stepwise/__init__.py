"""What methods share that choose an action at every control step: their environments, how they play and are scored."""
