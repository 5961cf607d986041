"""Receipts: signed evidence that a model has forgotten, and its check by someone else.

`receipt` is what one says, how it is signed and read; `keys` is the signer's key file;
`recording` makes a receipt of what happens to a model; `row_hash` is the keyed hash of
forgotten rows; `chains` is a file of receipts, each with the hash of the one before;
`verifying` compares a model with one that is made of the remaining rows; `strict_json` reads
JSON from outside. Signatures need the package cryptography: ``pip install 'hammemo[erase]'``.

Imports `hammemo.files` and all below; the service and the command line may import it.
"""

from hammemo.receipts.chains import ReceiptFile
from hammemo.receipts.keys import Keys, NamedKey, change_keys, new_key_file, read_keys
from hammemo.receipts.receipt import Receipt, SignedReceipt
from hammemo.receipts.recording import Moment, recorded
from hammemo.receipts.row_hash import RowHash
from hammemo.receipts.verifying import check_documents, check_rows

__all__ = [
    "Keys",
    "Moment",
    "NamedKey",
    "Receipt",
    "ReceiptFile",
    "RowHash",
    "SignedReceipt",
    "change_keys",
    "check_documents",
    "check_rows",
    "new_key_file",
    "read_keys",
    "recorded",
]
