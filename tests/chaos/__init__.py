"""A kill campaign: small tasks of many kinds run while processes beside them are killed, stopped and continued."""
