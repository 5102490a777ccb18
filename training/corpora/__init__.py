"""Files of sentence pairs: encodings, columns, faulty lines, archives, downloads.

Imports training.file_lock and, of model, languages and atomic_files.
"""
