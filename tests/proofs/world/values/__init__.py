"""Value files of others, said as stack files and rendered by the charts that they are for."""
