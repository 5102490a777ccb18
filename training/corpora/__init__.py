"""Files of sentence pairs: encodings, columns, faulty lines, archives, downloads.

Imports training.file_lock, model.languages, model.machine and model.atomic_files.
"""
