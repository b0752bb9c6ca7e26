# B of the rows of Scheduled Transfers between host and card.

until st-agent 3911; do :; done
