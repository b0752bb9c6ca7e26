# A of the rows of Scheduled Transfers from card to card.

until st-agent 3910; do :; done
