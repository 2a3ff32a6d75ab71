"""`smoothsweep audit`: how much does one model, somebody's own, leak of the people in it?"""
