"""What a leak stands beside: chance, control, reach and ceiling; what attackers of each access level get."""
