-- What was asked for, where its route has it stored. The columns are null in every row that is there, so its checks are
-- true of them all and need not be tried: nothing is read, and the lock is held for a moment only.
ALTER TABLE {table}
    ADD COLUMN request_route text COLLATE "C",
    ADD COLUMN request_data bytea,
    ADD CHECK ((request_route IS NULL) = (request_data IS NULL)) NOT VALID,
    ADD CHECK (octet_length(request_route) BETWEEN 1 AND 255 AND octet_length(request_data) <= 262144) NOT VALID,
    ADD CHECK (status <> 'completed' OR request_route IS NULL) NOT VALID;
