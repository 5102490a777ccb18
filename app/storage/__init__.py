"""What outlives a process or is shared by several: translation memories, glossaries, jobs, downloads, rates.

Kept in files, in this process, or in a server of Valkey or Redis. Imports app.translation, for the turns that work with
memories takes, app.text and all below them.
"""
