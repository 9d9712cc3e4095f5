"""`mindspec check`: reads what a client sent, and perhaps what it was answered, and reports every breach."""
