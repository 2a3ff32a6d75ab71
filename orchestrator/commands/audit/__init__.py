"""`smoothsweep audit`: how much does a user's own model leak about the people it was trained on?"""
