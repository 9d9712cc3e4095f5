"""Models, rules, field texts, routes and boundary corpus of the contract. Generated from the spec; do not edit."""
