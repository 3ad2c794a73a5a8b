"""The columns of a partial state's entries, for whatever dumps or reads them. See partial.pyx."""
from coterie._core.fold.fold_state cimport FoldState

cdef enum:
    HAS_VALUE = 1                # of the column `flags`

cdef dict entry_columns(FoldState fold, bint all_entries)
