"""Where an agent's events come from: each input is one file or folder here and one line in
``registry``.
"""
