"""Common ways to serve CTranslate2, as separate programs, independent of our service."""
