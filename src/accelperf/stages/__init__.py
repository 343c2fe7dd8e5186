"""The stages of the pipeline, one thin file each: read files, call, write files."""
