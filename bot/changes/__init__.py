"""Which ops does this diff change?"""
