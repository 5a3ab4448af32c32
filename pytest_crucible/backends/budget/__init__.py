"""Budgets: amounts, prices, the ledger that workers share, and the limit on spending."""
