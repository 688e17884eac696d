"""Speed and error beside other libraries: what `fanin bench` measures, prints and draws.

`axes` says what is varied, `peers` who takes part (one file each), `measuring` how time is taken
and `errors` how error is; `suite` runs them, `results` holds what came out, `report` and `plot`
show it.
"""
