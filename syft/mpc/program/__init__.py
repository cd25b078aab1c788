"""Programs: functions on shared tensors recorded once and run by the parties with one message each."""
