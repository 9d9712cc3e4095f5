"""The HTTP side: from validated requests to engine calls and back to contract answers."""
