"""Do outcomes differ, and who is wrong?"""
