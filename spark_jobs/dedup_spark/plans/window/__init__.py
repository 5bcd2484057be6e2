"""Plan `window`: ROW_NUMBER over the rows of all deliveries and the parent, as a DataFrame.

It writes the dates that no other plan can, and tests compare all other plans with it.
"""
