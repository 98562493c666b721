"""Language models behind one interface: an ensemble that is asked, priced, limited, recorded and replayed."""
