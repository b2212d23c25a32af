"""Sources of an agent's events: each input is one file or folder here and one line in
``registry``.
"""
