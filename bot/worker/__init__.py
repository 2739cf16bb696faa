"""What runs inside a framework's own interpreter; see protocol.py for what it shares with the bot."""
