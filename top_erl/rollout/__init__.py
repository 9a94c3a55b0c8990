"""Playing episodes, here or in worker processes; collecting and storing them.

Import from the modules: worker processes need some of them, and must not load PyTorch for it.
"""
