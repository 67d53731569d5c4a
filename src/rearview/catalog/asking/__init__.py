"""Questions of people: where clauses and SQL, checked before they run, and the connection they run on."""
