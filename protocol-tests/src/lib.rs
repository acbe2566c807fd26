//! What the tests of this package share: captured frames, scripted peers, foreign programs.
