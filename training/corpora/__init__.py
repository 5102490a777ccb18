"""What a file of sentence pairs is: its encoding, columns and faults, archives, downloads. Knows no token.

Imports training.file_lock and, of model, languages and atomic_files.
"""
