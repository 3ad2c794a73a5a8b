"""Changes of a fold's state by the records of one batch. See apply_records.pyx."""
from coterie._core.codec.batch cimport Batch
from coterie._core.fold.fold_state cimport FoldState

# The records are those of `fold.records`, of a data batch or of a control batch.
cdef int apply_batch(FoldState fold, const Batch* batch) except -1
cdef int apply_marker(FoldState fold, const Batch* batch) except -1
