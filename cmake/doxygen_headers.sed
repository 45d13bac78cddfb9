# A group's name is plain text to Doxygen.
/\\name/s/`//g
