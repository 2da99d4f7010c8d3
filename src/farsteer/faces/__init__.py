"""The protocols the hub speaks to the outside, and the server that joins them."""
