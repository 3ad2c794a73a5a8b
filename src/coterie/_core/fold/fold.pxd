"""The fold of a partition: batches in, the last record of each key out; partial states merge."""
from coterie._core.codec.batch cimport Batch
from coterie._core.fold.fold_state cimport FoldState

# ---- changes of a fold's state by the records of one batch ---------------------------------------

# The records are those of `fold.records`, of a data batch or of a control batch.
cdef int apply_batch(FoldState fold, const Batch* batch) except -1
cdef int apply_marker(FoldState fold, const Batch* batch) except -1

# ---- the columns of a partial state's entries, for whatever dumps or reads them ------------------

cdef enum:
    HAS_VALUE = 1                # of the column `flags`

cdef dict entry_columns(FoldState fold, bint all_entries)
