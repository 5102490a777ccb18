"""What people put around CTranslate2 to serve it, as programs of their own: none of them knows our service."""
