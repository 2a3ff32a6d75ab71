"""Small faults put into our own code, one at a time: how many of them do the tests notice?"""
