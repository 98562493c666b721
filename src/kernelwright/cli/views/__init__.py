"""How answers are shown: verdicts, searches, progress, JSON and one-line errors."""
