"""The native CPU step: whole forwards of Llama-like models in one call of our own C++, built where it runs."""
